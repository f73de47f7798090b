"""TODO language"""
