"""`deep plugins check`, `test-against` and `site`: try distributions in fresh environments, and show what came out."""
