"""What is shown of each entity, on screens and in commands alike."""
