DELETE FROM limpet.taskset;
