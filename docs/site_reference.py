def pages(): return {}
