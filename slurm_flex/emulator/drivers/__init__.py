"""What a running VM is: nothing but a record, or a real slurmd."""
