"""What is planted in the recipes, a file for each kind of mistake."""
