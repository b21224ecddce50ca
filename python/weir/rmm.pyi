# SPDX-License-Identifier: Apache-2.0

from typing import Any

from ._weir import MemoryResource

def make_resource(resource: MemoryResource) -> Any:
    """Make an rmm.mr.CallbackMemoryResource. Memory is for the stream that RMM names, and is reused after what the
    stream has when it comes back."""
