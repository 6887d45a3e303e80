# SPDX-License-Identifier: Apache-2.0
tutti_test(cluster_e2e SOURCES cluster_e2e_test.cc USES client node LABELS e2e TIMEOUT 240)
add_dependencies(cluster_e2e_test tutti)
target_compile_definitions(cluster_e2e_test PRIVATE TUTTI_BINARY="$<TARGET_FILE:tutti>")
