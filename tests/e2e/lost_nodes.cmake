# SPDX-License-Identifier: Apache-2.0
tutti_test(lost_nodes SOURCES ${CMAKE_CURRENT_LIST_DIR}/lost_nodes_test.cc USES client node LABELS e2e)
