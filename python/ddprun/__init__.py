"""ddprun, an elastic launcher for distributed training: the programs ``ddprun`` and ``ddpctl``.

``python -m ddprun ARGUMENTS`` is ``ddprun ARGUMENTS`` with this Python for the scripts.
"""
