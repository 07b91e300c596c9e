"""Who may do what: IAM's evaluation of policies, and the requests that it is asked about."""
