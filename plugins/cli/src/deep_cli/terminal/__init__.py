"""What every command shows and reads: the one module that prints, safe text, questions, waits that Ctrl-C ends."""
