"""The state of a job in etcd: a client, a lease that its holder alone may decide under, and commits bound to it.

Read first: `leader.py` (holds the lease), `store.py` (reads and commits), `client.py` (speaks to etcd).

- `place` reads the setting: `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`.
- `commits` cuts changes into transactions, and `lease` says how long its holder may decide. Both are pure.
- `limits` has times and sizes. The room imports the form of the state from `decide`, and what is below `job`.

The keys below the prefix:

| key | has |
|---|---|
| `job` | the job id |
| `leader` | who leads, with the schema of its state, bound to its lease. Its create revision is the *fencing number* |
| `led` | the same without a lease; its version counts the leaders so far |
| `commit` | the token of the last commit; see `commits` |
| `part/NAME` | a part of the state |
| `staged/TOKEN/I` | a piece of a commit that takes several transactions |
"""
