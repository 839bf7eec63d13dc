//! Negotiates with responders and evicts within budgets.
