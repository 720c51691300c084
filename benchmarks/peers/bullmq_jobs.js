// BullMQ's side of the benchmark: a worker, and what hands in its jobs.
//
//   node bullmq_jobs.js work              runs jobs until it is stopped
//   node bullmq_jobs.js COMMAND WORD      hands in jobs; the commands are in ../feeding.py
//
// BENCH_STORE is the URL of the server, BENCH_SETTING how BullMQ is set (environment.py). BENCH_FOLDER is
// where jobs leave what they saw, in the format of ../tally.py: times are CLOCK_MONOTONIC in
// nanoseconds, as in every process.

const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { Queue, Worker } = require('bullmq');

const store = new URL(process.env.BENCH_STORE);
const connection = { host: store.hostname, port: Number(store.port), maxRetriesPerRequest: null };
const setting = process.env.BENCH_SETTING || 'best';
const folder = process.env.BENCH_FOLDER;
const file = (name) => path.join(folder, name);
const [command, word] = process.argv.slice(2);
const now = () => process.hrtime.bigint();

const OPTIONS = {
  best: { concurrency: 100 },
  default: {},
  tight: { concurrency: 10, lockDuration: 4000, stalledInterval: 1000, maxStalledCount: 5 },
};

// BENCH_QUEUES: `name=places` for each queue, separated by commas; else one queue with the setting's options.
const queues = (process.env.BENCH_QUEUES || '')
  .split(',')
  .filter(Boolean)
  .map((text) => text.split('='))
  .map(([name, places]) => [name, { ...OPTIONS[setting], concurrency: Number(places) }]);
if (queues.length === 0) queues.push(['bench', OPTIONS[setting]]);

function work() {
  const sheet = fs.openSync(file(`tally-bullmq-${process.pid}`), 'w');
  let first = 0n;
  let last = 0n;
  let count = 0n;
  let shown = 0n;

  // A no-op job only looks at the clock; what it saw is written down by a timer.
  const show = () => {
    if (count === shown) return;
    shown = count;
    fs.writeSync(sheet, Buffer.from(new BigInt64Array([first, last, count]).buffer), 0, 24, 0);
  };
  setInterval(show, 10);

  const jobs = {
    noop: async () => {
      last = now();
      if (count === 0n) first = last;
      count += 1n;
    },
    pickup: async (job) => {
      fs.appendFileSync(file('pickups'), `${now() - BigInt(job.data.at)}\n`);
    },
    // Runs until it is ended from outside; its next attempt ends at once.
    hold: async (job) => {
      const starts = fs.existsSync(file('starts')) ? fs.readFileSync(file('starts'), 'latin1') : '';
      const again = starts.split('\n').some((line) => line.startsWith(`${job.data.key} `));
      const space = fs.statSync('/proc/self/ns/pid').ino;
      fs.appendFileSync(file('starts'), `${job.data.key} ${now()} ${process.pid} ${space}\n`);
      while (!again) await sleep(1000);
    },
  };
  for (const [name, options] of queues) {
    const worker = new Worker(name, (job) => jobs[job.name](job), { connection, ...options });
    worker.on('error', (error) => console.error(String(error)));
    worker.on('failed', (job, error) => console.error(String(error)));
  }
}

const payload = (number) => ({ user_id: number, email: 'someone@example.com', kind: 'welcome' });

// Every queue gets the same number.
async function fillAll(named, jobs) {
  for (const [at, queue] of named.entries()) {
    await fill(queue, jobs.filter((_, number) => number % named.length === at));
  }
}

async function fill(queue, jobs) {
  for (let done = 0; done < jobs.length; done += 1000) {
    await queue.addBulk(jobs.slice(done, done + 1000).map((data) => ({ name: 'noop', data })));
  }
}

async function one(queue, jobs) {
  for (const data of jobs) await queue.add('noop', data);
}

async function together(queue, jobs) {
  const callers = Array.from({ length: 64 }, (_, caller) => jobs.filter((_, at) => at % 64 === caller));
  await Promise.all(callers.map((share) => one(queue, share)));
}

async function pickup(queue) {
  const starts = file('pickups');
  const seen = () => (fs.existsSync(starts) ? fs.readFileSync(starts, 'latin1').split('\n').length - 1 : 0);
  const least = Number(process.env.BENCH_LEAST_PAUSE) * 1000;
  const most = Number(process.env.BENCH_MOST_PAUSE) * 1000;
  for (let done = 1; done <= Number(word); done += 1) {
    await queue.add('pickup', { at: now().toString() });
    while (seen() < done) await sleep(5);
    await sleep(least + Math.random() * (most - least));
  }
}

async function trickle(queue) {
  for (let done = 0; done < Number(word); done += 1) {
    await queue.add('noop', payload(done));
    await sleep(1000);
  }
}

async function enqueue() {
  // Finished jobs are removed, which is faster than keeping them.
  const named = queues.map(
    ([name]) => new Queue(name, { connection, defaultJobOptions: { removeOnComplete: true } }),
  );
  const [queue] = named;
  await queue.waitUntilReady();
  if (command === 'pickup') await pickup(queue);
  else if (command === 'trickle') await trickle(queue);
  else if (command === 'hold') await queue.add('hold', { key: word });
  else {
    await queue.add('noop', payload(0));
    const rest = Array.from({ length: Number(word) - 1 }, (_, number) => payload(number));
    const began = now();
    if (command === 'fill') await fillAll(named, rest);
    else await { one, together }[command](queue, rest);
    fs.appendFileSync(file('fed'), `${rest.length} ${now() - began}\n`);
  }
  await Promise.all(named.map((each) => each.close()));
  process.exit(0);
}

if (command === 'work') work();
else enqueue();
