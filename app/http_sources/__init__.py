"""HTTP sources: searches of others that a knowledge base stands for, asked inside what the operator allows."""
