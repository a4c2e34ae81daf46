"""Tools on top of the library, which imports none of them: stores, a service, sweeps, assessment, the command line."""
