"""The decisions of a job's Manager, without I/O, clock or chance.

Read `job` first: its `Job.step` takes one of the `events`, and returns an `Outcome` (`traffic`), which a shell carries
out. `streams` asks the plugins. `plugins` has their base class and the built-in ones, `snapshot` what they see;
docs/manager.md explains them. `records` and `outbox` are the larger parts of the `state`.

- `now` is in seconds since the epoch, so that a state outlives its process.
- The shell sends each command of an `Outcome` once, and says `Acknowledged` when the receiver has it. `Job` itself
  decides on resends, with the same uuid.
"""
