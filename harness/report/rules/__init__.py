"""The rules of the specifications, the scenarios that show each, and what drivers made of them."""
