"""Workers that share the judging of many training jobs: each leases some, and judges each in a process of its own."""
