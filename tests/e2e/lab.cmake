# SPDX-License-Identifier: Apache-2.0
tutti_test(lab_live SOURCES ${CMAKE_CURRENT_LIST_DIR}/lab_live_test.cc USES lab LABELS e2e TIMEOUT 120)
add_dependencies(lab_live_test tutti)  # and the MPI programs of live experiments
