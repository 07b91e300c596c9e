"""Rules in threads and processes of their own, with limits of time and memory."""
