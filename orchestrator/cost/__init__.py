"""What a plan costs: operations, time, memory, device-hours; probes of them, and a cap that a sweep keeps to."""
