# SPDX-License-Identifier: Apache-2.0
# Clusters of node processes; also under sanitizers.
tutti_test(cluster_e2e SOURCES ${CMAKE_CURRENT_LIST_DIR}/cluster_e2e_test.cc ${CMAKE_CURRENT_LIST_DIR}/processes.cc
  USES client node LABELS e2e cluster TIMEOUT 120)
add_dependencies(cluster_e2e_test tutti)
target_compile_definitions(cluster_e2e_test PRIVATE TUTTI_BINARY="$<TARGET_FILE:tutti>" TUTTI_PATIENCE=${TUTTI_PATIENCE})

tutti_test(transfer_e2e SOURCES ${CMAKE_CURRENT_LIST_DIR}/transfer_e2e_test.cc ${CMAKE_CURRENT_LIST_DIR}/processes.cc
  USES base LABELS e2e cluster TIMEOUT 120)
add_dependencies(transfer_e2e_test tutti)
target_compile_definitions(transfer_e2e_test PRIVATE TUTTI_BINARY="$<TARGET_FILE:tutti>" TUTTI_PATIENCE=${TUTTI_PATIENCE})

tutti_test(commands_e2e SOURCES ${CMAKE_CURRENT_LIST_DIR}/commands_e2e_test.cc ${CMAKE_CURRENT_LIST_DIR}/processes.cc
  USES client node LABELS e2e cluster TIMEOUT 120)
add_dependencies(commands_e2e_test tutti)
target_compile_definitions(commands_e2e_test PRIVATE TUTTI_BINARY="$<TARGET_FILE:tutti>" TUTTI_PATIENCE=${TUTTI_PATIENCE})

tutti_test(mistakes_e2e SOURCES ${CMAKE_CURRENT_LIST_DIR}/mistakes_e2e_test.cc ${CMAKE_CURRENT_LIST_DIR}/processes.cc
  USES client node LABELS e2e cluster TIMEOUT 120)
add_dependencies(mistakes_e2e_test tutti)
target_compile_definitions(mistakes_e2e_test PRIVATE TUTTI_BINARY="$<TARGET_FILE:tutti>" TUTTI_PATIENCE=${TUTTI_PATIENCE}
  TUTTI_SCENARIOS="${PROJECT_SOURCE_DIR}/scenarios")

tutti_test(jobs_e2e SOURCES ${CMAKE_CURRENT_LIST_DIR}/jobs_e2e_test.cc ${CMAKE_CURRENT_LIST_DIR}/processes.cc
  USES client node LABELS e2e cluster TIMEOUT 120)
add_dependencies(jobs_e2e_test tutti)
target_compile_definitions(jobs_e2e_test PRIVATE TUTTI_BINARY="$<TARGET_FILE:tutti>" TUTTI_PATIENCE=${TUTTI_PATIENCE})

tutti_test(lost_nodes SOURCES ${CMAKE_CURRENT_LIST_DIR}/lost_nodes_test.cc ${CMAKE_CURRENT_LIST_DIR}/processes.cc
  USES client node LABELS e2e cluster TIMEOUT 120)
target_compile_definitions(lost_nodes_test PRIVATE TUTTI_PATIENCE=${TUTTI_PATIENCE})

add_test(NAME operations COMMAND ${CMAKE_CURRENT_LIST_DIR}/operations.sh $<TARGET_FILE:tutti>
         ${PROJECT_SOURCE_DIR}/docs/operations.md ${PROJECT_SOURCE_DIR}/packaging/systemd/tutti-node.service.in)
set_tests_properties(operations PROPERTIES LABELS "e2e;cluster" TIMEOUT 120 SKIP_RETURN_CODE 77)

add_test(NAME cluster_limits COMMAND ${CMAKE_CURRENT_LIST_DIR}/cluster_limits.sh $<TARGET_FILE:tutti>)
set_tests_properties(cluster_limits PROPERTIES LABELS "e2e;cluster" TIMEOUT 120)

add_test(NAME blocked_mount COMMAND ${CMAKE_CURRENT_LIST_DIR}/blocked_mount.sh $<TARGET_FILE:tutti>)
set_tests_properties(blocked_mount PROPERTIES LABELS "e2e;cluster" TIMEOUT 120 SKIP_RETURN_CODE 77)

add_test(NAME hanging_mount COMMAND ${CMAKE_CURRENT_LIST_DIR}/hanging_mount.sh $<TARGET_FILE:tutti>)
set_tests_properties(hanging_mount PROPERTIES LABELS "e2e;cluster" TIMEOUT 120 SKIP_RETURN_CODE 77)

add_test(NAME two_mounts COMMAND ${CMAKE_CURRENT_LIST_DIR}/two_mounts.sh $<TARGET_FILE:tutti>)
set_tests_properties(two_mounts PROPERTIES LABELS "e2e;cluster" TIMEOUT 120 SKIP_RETURN_CODE 77)

add_test(NAME trace_outputs COMMAND ${CMAKE_CURRENT_LIST_DIR}/trace_outputs.sh $<TARGET_FILE:tutti>
         ${PROJECT_SOURCE_DIR}/src/trace/dxt_corpus/log)
set_tests_properties(trace_outputs PROPERTIES LABELS e2e TIMEOUT 60)

# The shell examples of README.md and docs/*.md, as they are printed.
add_test(NAME examples COMMAND ${CMAKE_CURRENT_LIST_DIR}/examples.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
set_tests_properties(examples PROPERTIES LABELS e2e TIMEOUT 300 SKIP_RETURN_CODE 77)

add_test(NAME dependencies COMMAND ${CMAKE_CURRENT_LIST_DIR}/dependencies.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(dependencies PROPERTIES LABELS e2e TIMEOUT 20)

tutti_test(pulled_payloads SOURCES ${CMAKE_CURRENT_LIST_DIR}/pulled_payloads_test.cc
  USES client node LABELS e2e cluster TIMEOUT 120)
