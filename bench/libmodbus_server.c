/* A Modbus TCP server by libmodbus, which has nothing in common with the client under measurement.
 *
 * Listens on a free port of 127.0.0.1, prints it, serves one connection after the other: 65,536 of each kind, the same for every
 * unit. Register n holds n. It ends with its standard input.
 */
#include <modbus.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void *end_with_input(void *unused)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    _exit(0);
    return unused;
}

int main(void)
{
    modbus_t *context = modbus_new_tcp("127.0.0.1", 0);
    modbus_mapping_t *mapping = modbus_mapping_new(65536, 65536, 65536, 65536);
    int listener = context && mapping ? modbus_tcp_listen(context, 1) : -1;
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    pthread_t watcher;
    uint8_t query[MODBUS_TCP_MAX_ADU_LENGTH];

    if (listener < 0 || getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        perror("libmodbus_server");
        return 1;
    }
    for (int i = 0; i < 65536; i++) {
        mapping->tab_registers[i] = mapping->tab_input_registers[i] = (uint16_t)i;
    }
    if (pthread_create(&watcher, NULL, end_with_input, NULL) != 0) {
        return 1;
    }
    printf("{\"event\": \"ready\", \"port\": %d}\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        if (modbus_tcp_accept(context, &listener) < 0) {
            return 1;
        }
        for (;;) {
            int received = modbus_receive(context, query);
            if (received < 0 || (received > 0 && modbus_reply(context, query, received, mapping) < 0)) {
                break;
            }
        }
        modbus_close(context);
    }
}
