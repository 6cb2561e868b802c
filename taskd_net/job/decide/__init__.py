"""The decisions of a job's Manager, without I/O, clock or chance.

Events come in (`events`), time is an argument, and `Job.tick` returns an `Outcome`: data that a shell carries out.

    job = Job(config, seed=seed)                    # or Job.from_json(stored, config)
    job.take(now, event)                            # reports, signals, acknowledgements
    if job.wake <= now:
        outcome = job.tick(now)
        store(job.to_json())                        # before anything leaves, so that a killed Manager repeats nothing
        carry_out(outcome)

- `now` is in seconds since the epoch, so that a state outlives its process.
- The shell sends each command of an `Outcome` once, and takes `Acknowledged` when the receiver has it. `Job` itself
  decides on resends, with the same uuid.
- `plugins` has the built-in plugins and the base class of all. docs/manager.md explains them.
"""
