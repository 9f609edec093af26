"""Terms of the loss on hidden states: one registered class a file."""
