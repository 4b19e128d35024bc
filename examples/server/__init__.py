"""A web application around one agent: many users, many sessions, approvals in the browser. See README.md."""
