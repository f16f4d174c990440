"""Pictures, figures and pages for people to look at; pure, values in, arrays and strings out."""
