"""What AWS refuses before it does anything: requests by models and limits, templates by schemas."""
