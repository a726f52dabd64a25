"""The figures of the papers, made again by the operators in the registry on the published data."""
