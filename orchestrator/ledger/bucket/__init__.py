"""The ledger in an object store: `--results s3://bucket/prefix`.

A process works on a scratch copy laid out like any results folder (`NMT_SCRATCH`, default the user's cache), so that everything written
there is written as it always was. What is new lies between that copy and the bucket:

    PREFIX/heads/RUN16.json  PREFIX/heads/sweeps/NAME.json      one head a run and a sweep (a "group")
    PREFIX/files/RUN16/train.json.EPOCH-SHA16 ...               contents, never overwritten

*Atomicity.* A head lists the group's files with their sha256 and objects. Contents are uploaded first; then one conditional PUT of the head
(If-Match its ETag) makes all of them visible together. What a head names is therefore complete, whatever dies when; what no head names is
an orphan, which `gc` lists and removes.

*Locks.* The head is also the lock: owner (host, pid, boot), epoch, `held`, and a beat renewed every 15 s by the same conditional PUT. A
group is taken by raising the epoch (If-None-Match for a new one). Refused while the owner is alive; taken over at once where it released
or is a dead process of this machine, else once the head is older than the lease (60 s) by the server's own clock, never by ours. Whoever
lost the epoch fails the If-Match, publishes nothing more and ends with FencedError at its next write. Objects carry the epoch in their
name, so that a late deletion by the old owner cannot take what the new one refers to.

*Publishing* is the work of a thread for each held lock (`lease`): it looks at the folder every second and publishes what changed; a server
that is away is tried again with growing pauses while the training goes on. Giving the lock back publishes the rest and waits up to
NMT_REMOTE_PATIENCE seconds for it, then fails with one line; the same command publishes it later from the scratch copy.

*Reading*: heads that changed are read and small files follow at once; tensors are fetched when they are asked for, checked by sha256. The
copy here is ahead of the bucket only where the newest epoch was this copy's: then nothing is fetched over it, and the next owner here
publishes it. Else the bucket is right and the copy becomes like it.

Credentials come from the environment that AWS tools read (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
AWS_ENDPOINT_URL, a container's or machine's role); they are written nowhere and cut out of messages. MLflow's store, analyses and
Ray's own state stay in the scratch copy. NFS and other mounted file systems are folders and need none of this.
"""
