"""The ledger in an object store: `--results s3://bucket/prefix`.

The bucket holds the files of a results folder under the same names. A process works on a scratch copy (`NMT_SCRATCH`, default the user's
cache), so that code which writes results does not change. A run's folder, or the files of a sweep, form a group.

*Whole or absent.* One PUT replaces an object as a whole. A file is uploaded before the record that names it (weights before their manifest,
translations before their record). Readers verify the digests of records, texts and tensors.

*Claims.* RUN16/lock.json and sweeps/NAME.lock.json say which process has a group. A process takes or renews a claim by a conditional PUT
(If-None-Match, If-Match). It renews its claim every 15 s and before each upload. Another process takes the claim over if the owner released
it, was a process of this machine that has died, or did not renew it for 60 s by the server's clock. A process that lost its claim uploads
nothing more and ends with FencedError at its next write.

*Uploads.* Each claim has a thread that looks for changed files every second. If the server is unreachable, it retries while the training
continues. Releasing a lock uploads the rest. It waits up to NMT_REMOTE_PATIENCE seconds for the server and then fails with one line; the
same command uploads the rest later from the scratch copy.

*Downloads.* Small files are fetched if their ETag changed, tensors on demand. If this copy had the claim last, its files are the newest
and stay. Otherwise the copy is made equal to the bucket.

Credentials come from the environment that AWS tools read (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
AWS_ENDPOINT_URL, a role). They are never stored, and are removed from messages. MLflow's store, analyses and Ray's state stay in the
scratch copy. NFS and other mounted file systems are folders and do not need this package.
"""
