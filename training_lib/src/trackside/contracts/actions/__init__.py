"""The actions, one file each. `trackside.contracts.action.Action` registers them."""
