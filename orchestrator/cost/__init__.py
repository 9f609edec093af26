"""Cost of a plan in operations, time, memory and device-hours, estimated from probes of its architectures; rows matched in it."""
