"""What users type: the app, its tasks, flows, schedules and queues."""
