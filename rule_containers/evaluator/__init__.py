"""The container that judges one training job with the rules that its run asks for."""
