"""Rules about mistakes in the training program: parameters or calls that it forgets, freezes or feeds wrongly."""
