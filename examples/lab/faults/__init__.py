"""One module per fault, with the programs `before` and `after`: each takes a `Setup` and yields samples per step."""
