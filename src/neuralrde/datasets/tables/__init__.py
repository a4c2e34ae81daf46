"""Tables of series, whatever file they come from: their columns, their layouts, and the data sets they make."""
