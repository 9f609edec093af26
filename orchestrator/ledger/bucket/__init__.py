"""The ledger in an object store: `--results s3://bucket/prefix`.

A process works on a scratch copy (`NMT_SCRATCH`, default the user's cache) laid out like any results folder, so that code which writes
results does not change. This package synchronises the copy and the bucket:

    PREFIX/heads/RUN16.json  PREFIX/heads/sweeps/NAME.json      one head per run and per sweep (a "group")
    PREFIX/files/RUN16/train.json.EPOCH-SHA16 ...               contents, never overwritten

*Atomicity.* A head lists the group's files with their sha256 and objects. Contents are uploaded first; one conditional PUT of the head
(If-Match its ETag) then makes all of them visible together. Whatever a head names is therefore complete after any crash. An object that
no head names is an orphan, which `gc` lists and removes.

*Locks.* The head is also the lock. It holds the owner (host, pid, boot), the epoch, `held`, and a heartbeat that the same conditional PUT
renews every 15 s. Taking a group raises its epoch (If-None-Match for a new group). It is refused while the owner is alive. It succeeds at
once if the owner released the group or was a process of this machine that has died, else once the head is older than the lease (60 s) by
the server's clock. A process that lost the epoch fails the If-Match, publishes nothing more and ends with FencedError at its next write.
Object names contain the epoch, so that a late deletion by the old owner cannot remove objects of the new one.

*Publishing.* Each held lock has a thread (`lease`) that polls the folder every second and publishes changes. If the server is unreachable
it retries with growing pauses while the training continues. Releasing the lock publishes the rest, waits up to NMT_REMOTE_PATIENCE seconds
for the server and then fails with one line; the same command publishes it later from the scratch copy.

*Reading.* Changed heads are read and small files fetched at once; tensors are fetched on demand and verified by sha256. The local copy is
ahead of the bucket only if the newest epoch was its own: then nothing is fetched over it, and the next owner here publishes it. Otherwise
the copy is made equal to the bucket.

Credentials come from the environment that AWS tools read (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
AWS_ENDPOINT_URL, a container's or machine's role); they are never stored, and are removed from messages. MLflow's store, analyses and
Ray's state stay in the scratch copy. NFS and other mounted file systems are folders and do not need this package.
"""
