"""How quantities grow: laws, diffusion of credit, published sizes, the paper pool of the survey."""
