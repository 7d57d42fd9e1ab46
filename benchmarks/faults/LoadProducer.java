import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The load of load.py with Apache Kafka's own producer: same arguments, same schedule, same file. */
public final class LoadProducer {
    private static final long SECOND = 1_000_000_000L;
    private static final int UNREPORTED = 0;
    private static final int DELIVERED = 1;
    private static final int FIRST_ERROR = 2;

    private final Map<String, String> told;
    private final int rate;
    private final int valueBytes;
    private final boolean keyed;
    private final long[] sent;
    private final long[] done;
    private final long[] partition;
    private final long[] outcome;
    private final List<String> errors = new ArrayList<>();
    private long reportedAgain;

    private LoadProducer(Map<String, String> told) {
        this.told = told;
        rate = Integer.parseInt(told.get("rate"));
        valueBytes = Integer.parseInt(told.get("value.bytes"));
        keyed = told.get("keyed").equals("True");
        int records = Integer.parseInt(told.get("records"));
        sent = new long[records];
        done = new long[records];
        partition = new long[records];
        outcome = new long[records];
        Arrays.fill(sent, -1);
        Arrays.fill(done, -1);
        Arrays.fill(partition, -1);
    }

    public static void main(String[] words) throws Exception {
        Map<String, String> told = new HashMap<>();
        for (String word : words) {
            int equals = word.indexOf('=');
            told.put(word.substring(0, equals), word.substring(equals + 1));
        }
        new LoadProducer(told).run();
    }

    private void run() throws Exception {
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings());
        producer.partitionsFor(told.get("topic"));
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        long begin = Long.parseLong(in.readLine().trim());
        double warmUpSeconds = Double.parseDouble(told.get("warm.up.s"));
        int warmUp = (int) Math.round(rate * warmUpSeconds);
        sendPaced(producer, begin - (long) (warmUpSeconds * SECOND), -warmUp, 0);
        sendPaced(producer, begin, 0, sent.length);
        producer.flush(); // the delivery limit bounds it
        write(Path.of(told.get("out")));
        producer.close();
    }

    /** Everything told as config.NAME is a setting of the producer. */
    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", told.get("bootstrap"));
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        for (Map.Entry<String, String> entry : told.entrySet()) {
            if (entry.getKey().startsWith("config.")) {
                settings.put(entry.getKey().substring("config.".length()), entry.getValue());
            }
        }
        return settings;
    }

    /** Record n is due n/rate seconds after the first, however late others are. */
    private void sendPaced(KafkaProducer<byte[], byte[]> producer, long begin, int from, int to) {
        String topic = told.get("topic");
        for (int number = from; number < to; number++) {
            long due = begin + (number - from) * SECOND / rate;
            for (long early = due - System.nanoTime(); early > 0; early = due - System.nanoTime()) {
                LockSupport.parkNanos(early);
            }
            send(producer, topic, number);
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, String topic, int number) {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, key(number), value(number));
        if (number >= 0) {
            sent[number] = System.nanoTime();
        }
        try {
            producer.send(record, (metadata, error) -> report(number, metadata, error));
        } catch (RuntimeException error) {
            report(number, null, error);
        }
    }

    private synchronized void report(int number, RecordMetadata metadata, Exception error) {
        if (number < 0) {
            return;
        }
        if (outcome[number] != UNREPORTED) {
            reportedAgain++;
            return;
        }
        done[number] = System.nanoTime();
        partition[number] = metadata == null ? -1 : metadata.partition();
        outcome[number] = error == null ? DELIVERED : code(error.getClass().getSimpleName());
    }

    private int code(String error) {
        if (!errors.contains(error)) {
            errors.add(error);
        }
        return FIRST_ERROR + errors.indexOf(error);
    }

    private byte[] key(int number) {
        long mixed = Math.floorMod(number * 2_654_435_761L, 1L << 32);
        return keyed ? ("key-" + mixed % 20_000).getBytes(StandardCharsets.UTF_8) : null;
    }

    private byte[] value(int number) {
        String head = String.format(Locale.ROOT, "%s %+011d ", told.get("run"), number);
        byte[] value = Arrays.copyOf(head.getBytes(StandardCharsets.UTF_8), valueBytes);
        Arrays.fill(value, head.length(), valueBytes, (byte) 'x');
        return value;
    }

    private synchronized void write(Path out) throws Exception {
        String names = errors.isEmpty() ? "" : "\"" + String.join("\", \"", errors) + "\"";
        String header = String.format(Locale.ROOT,
            "{\"records\": %d, \"errors\": [%s], \"reported_again\": %d, \"counters\": \"\"}\n",
            sent.length, names, reportedAgain);
        try (OutputStream file = new BufferedOutputStream(Files.newOutputStream(out))) {
            file.write(header.getBytes(StandardCharsets.UTF_8));
            for (long[] column : List.of(sent, done, partition, outcome)) {
                ByteBuffer bytes = ByteBuffer.allocate(8 * column.length).order(ByteOrder.LITTLE_ENDIAN);
                bytes.asLongBuffer().put(column);
                file.write(bytes.array());
            }
        }
    }
}
