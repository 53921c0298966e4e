def sections(request):
    return []
