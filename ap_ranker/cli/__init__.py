"""The `ap-ranker` command: options in, one library call, output."""
