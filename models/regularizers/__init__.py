"""Terms of the loss on hidden states: registered classes."""
