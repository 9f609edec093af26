"""The ledger in an object store: `--results s3://bucket/prefix` (docs/lifecycle.md).

A process works on a scratch copy of the bucket, so that code which writes results does not change. A run's folder, or the files of a sweep,
form a group. A process takes or renews the claim of a group (RUN16/lock.json, sweeps/NAME.lock.json) by a conditional PUT: every 15 s and
before each upload. Another process takes it over if the owner released it, was a process of this machine that has died, or did not renew
it for 60 s by the server's clock. A process that lost its claim uploads nothing more and ends with FencedError at its next write.

One PUT replaces an object as a whole, and a file is uploaded before the record that names it. Readers verify the digests. Small files are
fetched if their ETag changed, tensors on demand. If this copy had the claim last, its files are the newest and stay; otherwise the copy is
made equal to the bucket. Credentials come from the environment, are never stored, and are removed from messages.
"""
