"""What every implementation of a protocol must do."""

import pytest

pytest.register_assert_rewrite("tests.contracts.transport")
