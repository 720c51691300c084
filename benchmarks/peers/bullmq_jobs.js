// BullMQ's side of the benchmark: a worker, and what hands in its jobs.
//
//   node bullmq_jobs.js work CONCURRENCY    runs jobs until it is stopped
//   node bullmq_jobs.js fill COUNT          hands in no-op jobs, in chunks of 1,000
//   node bullmq_jobs.js pickup COUNT        hands in one job at a time, with random pauses
//
// BENCH_REDIS is the port of the server. BENCH_FOLDER is where the worker leaves what it saw, in the
// format of benchmarks/tally.py: times are CLOCK_MONOTONIC in nanoseconds, as in every process.

const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { Queue, Worker } = require('bullmq');

const connection = { host: '127.0.0.1', port: Number(process.env.BENCH_REDIS), maxRetriesPerRequest: null };
const folder = process.env.BENCH_FOLDER;
const command = process.argv[2];
const number = Number(process.argv[3]);
const now = () => process.hrtime.bigint();

function work() {
  const sheet = fs.openSync(path.join(folder, `tally-bullmq-${process.pid}`), 'w');
  const starts = path.join(folder, 'pickups');
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

  const run = async (job) => {
    last = now();
    if (job.name === 'pickup') {
      fs.appendFileSync(starts, `${last - BigInt(job.data.at)}\n`);
      return;
    }
    if (count === 0n) first = last;
    count += 1n;
  };
  const worker = new Worker('bench', run, { connection, concurrency: number });
  worker.on('error', (error) => console.error(String(error)));
  worker.on('failed', (job, error) => console.error(String(error)));
}

async function fill(queue) {
  for (let done = 0; done < number; done += 1000) {
    const size = Math.min(1000, number - done);
    await queue.addBulk(Array.from({ length: size }, () => ({ name: 'noop', data: { n: 1 } })));
  }
}

async function pickup(queue) {
  const starts = path.join(folder, 'pickups');
  const seen = () => (fs.existsSync(starts) ? fs.readFileSync(starts, 'latin1').split('\n').length - 1 : 0);
  const least = Number(process.env.BENCH_LEAST_PAUSE) * 1000;
  const most = Number(process.env.BENCH_MOST_PAUSE) * 1000;
  for (let done = 1; done <= number; done += 1) {
    await queue.add('pickup', { at: now().toString() });
    while (seen() < done) await sleep(5);
    await sleep(least + Math.random() * (most - least));
  }
}

async function enqueue() {
  // Finished jobs are removed, which is faster than keeping them.
  const queue = new Queue('bench', { connection, defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();
  await (command === 'fill' ? fill(queue) : pickup(queue));
  await queue.close();
  process.exit(0);
}

if (command === 'work') work();
else enqueue();
