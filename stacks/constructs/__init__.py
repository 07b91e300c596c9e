"""Parts of stacks; each construct creates one thing as this deployment wants it."""
