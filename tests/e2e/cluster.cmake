# SPDX-License-Identifier: Apache-2.0
# Clusters of node processes; also under sanitizers.
tutti_test(cluster_e2e SOURCES ${CMAKE_CURRENT_LIST_DIR}/cluster_e2e_test.cc ${CMAKE_CURRENT_LIST_DIR}/processes.cc
  USES client node LABELS e2e cluster TIMEOUT 120)
add_dependencies(cluster_e2e_test tutti)
target_compile_definitions(cluster_e2e_test PRIVATE TUTTI_BINARY="$<TARGET_FILE:tutti>" TUTTI_PATIENCE=${TUTTI_PATIENCE})

tutti_test(lost_nodes SOURCES ${CMAKE_CURRENT_LIST_DIR}/lost_nodes_test.cc ${CMAKE_CURRENT_LIST_DIR}/processes.cc
  USES client node LABELS e2e cluster TIMEOUT 120)
target_compile_definitions(lost_nodes_test PRIVATE TUTTI_PATIENCE=${TUTTI_PATIENCE})

add_test(NAME operations COMMAND ${CMAKE_CURRENT_LIST_DIR}/operations.sh $<TARGET_FILE:tutti>
         ${PROJECT_SOURCE_DIR}/docs/operations.md)
set_tests_properties(operations PROPERTIES LABELS "e2e;cluster" TIMEOUT 120 SKIP_RETURN_CODE 77)
