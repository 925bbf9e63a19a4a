def pages():
    return {}
