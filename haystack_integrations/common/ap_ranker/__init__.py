# SPDX-License-Identifier: Apache-2.0
"""What the Haystack components and the document store of ap-ranker have in common."""
